package serve

import (
	"path/filepath"

	"kelson.dev/apiserver/authn"
	"kelson.dev/apiserver/pki"
	"kelson.dev/kubernetes/controlplane"
)

// frontProxyName is the common name of this server's certificate for other API servers.
const frontProxyName = "front-proxy-client"

// addFrontProxy gives the control plane a separate authority for the certificate with which it
// calls other API servers, unless flags name one. Those servers find the authority in the ConfigMap
// kube-system/extension-apiserver-authentication.
func addFrontProxy(dir string, cfg *controlplane.Config) error {
	if cfg.Aggregation.ProxyClient != nil || cfg.Authentication.RequestHeader != nil {
		return nil
	}
	dir = filepath.Join(dir, "pki", "front-proxy")
	authority, err := pki.OpenAuthority(dir, "kelson-front-proxy-ca")
	if err != nil {
		return err
	}
	cfg.Aggregation.ProxyClient = authority.ClientCertificate(frontProxyName)
	cfg.Authentication.RequestHeader = &authn.RequestHeader{
		ClientCAFile: filepath.Join(dir, "ca.crt"), AllowedNames: []string{frontProxyName},
		Usernames: []string{"X-Remote-User"}, UIDs: []string{"X-Remote-Uid"}, Groups: []string{"X-Remote-Group"},
		ExtraPrefixes: []string{"X-Remote-Extra-"},
	}
	return nil
}
