//go:build linux

// Package cluster verifies the API server that a machine joins, and keeps the node's credentials.
package cluster

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	"sigs.k8s.io/yaml"
)

// Cluster is an API server, and the data with which to verify it.
type Cluster struct {
	// Server is the https URL.
	Server string
	// Authority is the file with the authorities of the server's certificate; "" means that
	// cluster-info has them and that each must have one of Hashes.
	Authority string
	// Hashes are digests of public keys (SubjectPublicKeyInfo), sha256:HEX, as in kubeadm's
	// --discovery-token-ca-cert-hash.
	Hashes []string
	// Token is the bootstrap token, for machines that have not joined yet.
	Token string
}

const hashPrefix = "sha256:"

// Validate reports wrong values.
func (c *Cluster) Validate() error {
	if u, err := url.Parse(c.Server); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("server %q: must be an https URL", c.Server)
	}
	if c.Authority == "" && len(c.Hashes) == 0 {
		return errors.New("pass --ca-hash, as kelson token create prints it, or --ca-file, so that the server can be verified")
	}
	for _, h := range c.Hashes {
		digest, isSHA256 := strings.CutPrefix(h, hashPrefix)
		if b, err := hex.DecodeString(digest); !isSHA256 || err != nil || len(b) != sha256.Size {
			return fmt.Errorf("--ca-hash %q: want sha256: and 64 hexadecimal digits", h)
		}
	}
	if c.Token != "" && !bootstraputil.IsValidBootstrapToken(c.Token) {
		return fmt.Errorf("--token: want %s", bootstrapapi.BootstrapTokenPattern)
	}
	return nil
}

// Files are the credentials of a node, below one directory.
type Files struct {
	Authority  string // certificates of the authorities
	Kubeconfig string // of the node; kubelet writes it when it has joined
	Bootstrap  string // kubeconfig with the token
	Pki        string // directory of the certificates that kubelet requests
}

// FilesIn returns the names of the files in a directory.
func FilesIn(dir string) Files {
	pki := filepath.Join(dir, "pki")
	return Files{
		Authority: filepath.Join(pki, "ca.crt"), Kubeconfig: filepath.Join(dir, "kubelet.kubeconfig"),
		Bootstrap: filepath.Join(dir, "bootstrap.kubeconfig"), Pki: pki,
	}
}

// Node returns the name of the node, from its certificate.
func (f Files) Node() (string, error) {
	certificates, err := cert.CertsFromFile(f.certificate())
	if err != nil {
		return "", err
	}
	name, isNode := strings.CutPrefix(certificates[0].Subject.CommonName, "system:node:")
	if !isNode {
		return "", fmt.Errorf("%s is the certificate of %q, not of a node", f.certificate(),
			certificates[0].Subject.CommonName)
	}
	return name, nil
}

// certificate is the file with the newest certificate and its key. kubelet writes it.
func (f Files) certificate() string { return filepath.Join(f.Pki, "kubelet-client-current.pem") }

// Joined reports whether the node has its own credentials.
func (f Files) Joined() bool {
	// kubelet writes the kubeconfig before the certificate that it names.
	for _, name := range []string{f.Kubeconfig, f.certificate()} {
		if _, err := os.Stat(name); err != nil {
			return false
		}
	}
	return true
}

// Prepare verifies the server and writes the files with which kubelet joins. It keeps the
// credentials of a node that has joined before.
func (c *Cluster) Prepare(ctx context.Context, f Files) error {
	if f.Joined() {
		return c.move(ctx, f)
	}
	if c.Token == "" {
		return errors.New("pass --token, from kelson token create")
	}
	if err := os.MkdirAll(f.Pki, 0o700); err != nil {
		return err
	}
	authority, err := c.authority(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.Authority, authority, 0o600); err != nil {
		return err
	}
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"cluster": {Server: c.Server,
			CertificateAuthority: f.Authority}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"bootstrap": {Token: c.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"bootstrap": {Cluster: "cluster", AuthInfo: "bootstrap"}},
		CurrentContext: "bootstrap",
	}, f.Bootstrap)
}

// move changes the server in the kubeconfig of a node that has joined, if the server is a different
// one. The new server must have a certificate of the same authorities.
func (c *Cluster) move(ctx context.Context, f Files) error {
	cfg, err := clientcmd.LoadFromFile(f.Kubeconfig)
	if err != nil {
		return err
	}
	moved := false
	for _, cluster := range cfg.Clusters {
		if cluster.Server == c.Server {
			continue
		}
		authority, err := os.ReadFile(f.Authority)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authority)
		if _, err := c.clusterInfo(ctx, pool); err != nil {
			return fmt.Errorf("this machine is a node of %s, and %s is not known to belong to the same cluster: %w: to join another cluster, run kelson-node reset first", cluster.Server, c.Server, err)
		}
		cluster.Server, moved = c.Server, true
	}
	if !moved {
		return nil
	}
	return clientcmd.WriteToFile(*cfg, f.Kubeconfig)
}

// authority returns the verified certificates of the server's authorities.
func (c *Cluster) authority(ctx context.Context) ([]byte, error) {
	if c.Authority != "" {
		authority, err := os.ReadFile(c.Authority)
		if err == nil {
			_, err = cert.ParseCertsPEM(authority)
		}
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		return authority, nil
	}
	info, err := c.clusterInfo(ctx, nil)
	if err != nil {
		return nil, err
	}
	authority, err := c.pinned(info)
	if err != nil {
		return nil, err
	}
	// The first request did not verify the server; this one does.
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	_, err = c.clusterInfo(ctx, pool)
	return authority, err
}

// pinned returns the authorities in a cluster-info if each has one of the expected digests.
func (c *Cluster) pinned(info *corev1.ConfigMap) ([]byte, error) {
	cfg, err := clientcmd.Load([]byte(info.Data[bootstrapapi.KubeConfigKey]))
	if err != nil {
		return nil, fmt.Errorf("read cluster-info of %s: %w", c.Server, err)
	}
	cluster, ok := cfg.Clusters[""]
	if !ok {
		return nil, fmt.Errorf("read cluster-info of %s: no cluster", c.Server)
	}
	authorities, err := cert.ParseCertsPEM(cluster.CertificateAuthorityData)
	if err != nil {
		return nil, fmt.Errorf("read cluster-info of %s: %w", c.Server, err)
	}
	for _, a := range authorities {
		hash := fmt.Sprintf("%s%x", hashPrefix, sha256.Sum256(a.RawSubjectPublicKeyInfo))
		if !slices.ContainsFunc(c.Hashes, func(h string) bool { return strings.EqualFold(h, hash) }) {
			return nil, fmt.Errorf("the authority %q of %s has the digest %s, which is not among --ca-hash: another server may have answered", a.Subject.CommonName, c.Server, hash)
		}
	}
	return cluster.CertificateAuthorityData, nil
}

// clusterInfo reads the public ConfigMap cluster-info. With a pool it verifies the server.
func (c *Cluster) clusterInfo(ctx context.Context, pool *x509.CertPool) (*corev1.ConfigMap, error) {
	verify := &tls.Config{RootCAs: pool, InsecureSkipVerify: pool == nil}
	h := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: verify,
		Proxy: http.ProxyFromEnvironment}}
	defer h.CloseIdleConnections()
	at := strings.TrimSuffix(c.Server, "/") + "/api/v1/namespaces/kube-public/configmaps/" +
		bootstrapapi.ConfigMapClusterInfo
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	resp, err := h.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", at, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s: run kelson token create, which publishes it", at, resp.Status)
	}
	info := &corev1.ConfigMap{}
	if err := yaml.Unmarshal(body, info); err != nil {
		return nil, fmt.Errorf("GET %s: %w", at, err)
	}
	return info, nil
}
