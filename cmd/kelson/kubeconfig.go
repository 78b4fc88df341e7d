package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/apiserver/pki"
)

// lateHandler is set before the first request is answered.
type lateHandler struct{ http.Handler }

// administrator is a client certificate of system:masters, with what it takes to trust the server.
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

// kubeconfig gives the content of a kubeconfig for a server.
func (a *administrator) kubeconfig(url string) ([]byte, error) {
	return kubeconfig(url, a.authority, &api.AuthInfo{ClientCertificateData: a.CertPEM, ClientKeyData: a.KeyPEM})
}

// kubeconfig gives the content of a kubeconfig for a server whose certificate the authority (PEM) issued, and for one user.
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

// writeKubeconfig writes the kubeconfig of an administrator, readable by its owner alone. It replaces the file as a whole, so that
// a reader never sees half of it.
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
