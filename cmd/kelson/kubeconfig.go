package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/server/pki"
)

// lateHandler is set before the first request is answered.
type lateHandler struct{ http.Handler }

// writeKubeconfig writes the kubeconfig of an administrator, readable by its owner alone. It replaces the file as a whole, so that
// a reader never sees half of it.
func writeKubeconfig(file, url string, authority *pki.Authority) error {
	admin, err := authority.Client("kelson-admin", "system:masters")
	if err != nil {
		return err
	}
	const name = "kelson"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: url, CertificateAuthorityData: authority.PEM}
	config.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: admin.CertPEM, ClientKeyData: admin.KeyPEM}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
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
