package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/apiserver/pki"
)

// contextPrefix begins the names in the kubeconfigs that servers write.
const contextPrefix = "kelson"

// contextName returns the name of the cluster, the user and the context in the kubeconfig for a
// server: that of its port, with its host unless that is this machine, and with the id of a
// throwaway control plane. Servers that run at the same time have different names, so that tools
// can merge their kubeconfigs.
func contextName(server string) string {
	parsed, err := url.Parse(server)
	if err != nil {
		return contextPrefix
	}
	parts := []string{contextPrefix}
	if host := parsed.Hostname(); host != "localhost" && !net.ParseIP(host).IsLoopback() {
		parts = append(parts, host)
	}
	parts = append(parts, parsed.Port())
	if id := path.Base(parsed.Path); id != "." && id != "/" {
		parts = append(parts, id)
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "-")
}

// isContextName reports whether contextName, or an earlier version of it, returns such a name.
func isContextName(name string) bool {
	return name == contextPrefix || strings.HasPrefix(name, contextPrefix+"-")
}

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
func (a *administrator) kubeconfig(server string) ([]byte, error) {
	return kubeconfig(server, a.authority, &api.AuthInfo{ClientCertificateData: a.CertPEM, ClientKeyData: a.KeyPEM})
}

// kubeconfig encodes a kubeconfig with one user for a server whose certificate was issued by
// authority (PEM).
func kubeconfig(server string, authority []byte, user *api.AuthInfo) ([]byte, error) {
	name := contextName(server)
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: server, CertificateAuthorityData: authority}
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
	own := config.CurrentContext
	for _, names := range []iter.Seq[string]{maps.Keys(config.Clusters), maps.Keys(config.AuthInfos),
		maps.Keys(config.Contexts)} {
		for name := range names {
			if name != own || !isContextName(name) {
				return fmt.Errorf("--kubeconfig %s: the file has other entries, such as %s, which would be lost: name another file", file, name)
			}
		}
	}
	return nil
}

// provideKubeconfig writes an administrator's kubeconfig. If that fails, such as on a full disk,
// and the file is of an earlier start at the same URL, it logs the error and keeps the file.
func provideKubeconfig(file, server string, authority *pki.Authority, log *slog.Logger) error {
	err := writeKubeconfig(file, server, authority)
	if err == nil {
		return nil
	}
	earlier, loading := clientcmd.LoadFromFile(file)
	if loading != nil {
		return err
	}
	cluster := earlier.Clusters[contextName(server)]
	if cluster == nil || cluster.Server != server || !bytes.Equal(cluster.CertificateAuthorityData, authority.PEM) {
		return err
	}
	log.Warn("kept the kubeconfig of an earlier start", "file", file, "err", err)
	return nil
}

// writeKubeconfig writes an administrator's kubeconfig that only its owner can read. It replaces
// the file atomically, so that readers never see a part of it.
func writeKubeconfig(file, server string, authority *pki.Authority) error {
	admin, err := newAdministrator(authority)
	if err != nil {
		return err
	}
	data, err := admin.kubeconfig(server)
	if err != nil {
		return err
	}
	if err := replaceFile(file, data); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
