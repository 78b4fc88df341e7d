package serve

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/apiserver/pki"
)

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
	const name = "kelson"
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
