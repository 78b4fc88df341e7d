package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/apiserver/pki"
)

// contextName is the name of the cluster, the user and the context in the kubeconfigs that servers
// write.
const contextName = "kelson"

// lateHandler is a handler that is set after the server is created and before it runs.
type lateHandler struct{ http.Handler }

// administrator holds a client certificate of group system:masters, and the authority of the
// server.
type administrator struct {
	authority []byte
	pki.KeyPair
}

func newAdministrator(authority *pki.Authority) (*administrator, error) {
	pair, err := authority.Client("kelson-admin", "system:masters")
	if err != nil {
		return nil, err
	}
	return &administrator{authority.PEM, pair}, nil
}

// kubeconfig encodes the administrator's kubeconfig for a server.
func (a *administrator) kubeconfig(url string) ([]byte, error) {
	return kubeconfig(url, a.authority, &api.AuthInfo{ClientCertificateData: a.CertPEM, ClientKeyData: a.KeyPEM})
}

// kubeconfig encodes a kubeconfig with one user for a server whose certificate was issued by
// authority (PEM).
func kubeconfig(url string, authority []byte, user *api.AuthInfo) ([]byte, error) {
	const name = contextName
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: url, CertificateAuthorityData: authority}
	config.AuthInfos[name] = user
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return data, nil
}

// checkKubeconfig returns an error if a file has anything but a kubeconfig that Kelson wrote, so
// that a server does not replace the user's other clusters.
func checkKubeconfig(file string) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || len(bytes.TrimSpace(data)) == 0 && err == nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return fmt.Errorf("--kubeconfig %s: the file exists and is not a kubeconfig: name another one", file)
	}
	for _, names := range []iter.Seq[string]{maps.Keys(config.Clusters), maps.Keys(config.AuthInfos), maps.Keys(config.Contexts)} {
		for name := range names {
			if name != contextName {
				return fmt.Errorf("--kubeconfig %s: the file has other entries, such as %s, which would be lost: name another file", file, name)
			}
		}
	}
	return nil
}

// provideKubeconfig writes an administrator's kubeconfig. If that fails, such as on a full disk,
// and the file is of an earlier start at the same URL, it logs the error and keeps the file.
func provideKubeconfig(file, url string, authority *pki.Authority, log *slog.Logger) error {
	err := writeKubeconfig(file, url, authority)
	if err == nil {
		return nil
	}
	earlier, loading := clientcmd.LoadFromFile(file)
	if loading != nil {
		return err
	}
	cluster := earlier.Clusters[contextName]
	if cluster == nil || cluster.Server != url || !bytes.Equal(cluster.CertificateAuthorityData, authority.PEM) {
		return err
	}
	log.Warn("kept the kubeconfig of an earlier start", "file", file, "err", err)
	return nil
}

// writeKubeconfig writes an administrator's kubeconfig that only its owner can read. It replaces
// the file atomically, so that readers never see a part of it.
func writeKubeconfig(file, url string, authority *pki.Authority) error {
	admin, err := newAdministrator(authority)
	if err != nil {
		return err
	}
	data, err := admin.kubeconfig(url)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".kubeconfig-") // mode 0600
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
