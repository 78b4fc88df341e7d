// Package peers starts etcd and kube-apiserver, with which tests and benchmarks compare kelson. The
// binaries are in a folder; go build -o bin/peers/ ./bench/peers/... makes them.
//
//	authority, err := peers.WriteKeys(dir, "bench")
//	etcd, url, err := peers.Etcd("bin/peers", dir)
//	api, err := peers.APIServer("bin/peers", dir, dir, url, port)
package peers

import (
	"errors"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/apiserver/pki"
	"kelson.dev/test/child"
)

// Etcd starts etcd with its state and its log in dir, and more flags. url is the one for clients.
func Etcd(binaries, dir string, flags ...string) (etcd *child.Process, url string, err error) {
	ports, err := child.FreePorts(2)
	if err != nil {
		return nil, "", err
	}
	url = "http://127.0.0.1:" + ports[0]
	etcd, err = child.Start(dir, filepath.Join(binaries, "etcd"), append([]string{
		"--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", "http://127.0.0.1:" + ports[1], "--log-level", "error"}, flags...)...)
	return etcd, url, err
}

// APIServer starts kube-apiserver with the files of WriteKeys in keys, its log in dir, and more
// flags. The plugin ServiceAccount is off, because it needs a controller.
func APIServer(binaries, dir, keys, etcd, port string, flags ...string) (*child.Process, error) {
	key := func(name string) string { return filepath.Join(keys, name) }
	return child.Start(dir, filepath.Join(binaries, "kube-apiserver"), append([]string{
		"--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", port, "--authorization-mode", "RBAC",
		"--tls-cert-file", key("server.crt"), "--tls-private-key-file", key("server.key"),
		"--client-ca-file", key("ca.crt"), "--service-cluster-ip-range", "10.0.0.0/24",
		"--disable-admission-plugins", "ServiceAccount",
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", key("sa.key"), "--service-account-signing-key-file", key("sa.key")}, flags...)...)
}

// WriteKeys creates an authority. It writes its certificate to ca.crt, the keys of a server on the
// loopback address to server.crt and server.key, and a key for tokens of service accounts to
// sa.key.
func WriteKeys(dir, name string) (*pki.Authority, error) {
	authority, err := pki.NewAuthority(name)
	if err != nil {
		return nil, err
	}
	server, err := authority.Server("127.0.0.1", "localhost")
	if err != nil {
		return nil, err
	}
	_, err = pki.OpenKey(filepath.Join(dir, "sa.key"))
	return authority, errors.Join(err, WritePair(dir, "server", server),
		os.WriteFile(filepath.Join(dir, "ca.crt"), authority.PEM, 0o600))
}

// WritePair writes a certificate and its key to name.crt and name.key.
func WritePair(dir, name string, pair pki.KeyPair) error {
	return errors.Join(os.WriteFile(filepath.Join(dir, name+".crt"), pair.CertPEM, 0o600),
		os.WriteFile(filepath.Join(dir, name+".key"), pair.KeyPEM, 0o600))
}

// Kubeconfig returns the kubeconfig of an administrator of a server.
func Kubeconfig(url string, authority *pki.Authority, admin pki.KeyPair) *api.Config {
	config := api.NewConfig()
	config.Clusters["kube-apiserver"] = &api.Cluster{Server: url, CertificateAuthorityData: authority.PEM}
	config.AuthInfos["admin"] = &api.AuthInfo{ClientCertificateData: admin.CertPEM, ClientKeyData: admin.KeyPEM}
	config.Contexts["kube-apiserver"] = &api.Context{Cluster: "kube-apiserver", AuthInfo: "admin"}
	config.CurrentContext = "kube-apiserver"
	return config
}
