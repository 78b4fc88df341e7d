package token

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"time"

	"k8s.io/client-go/util/cert"

	"kelson.dev/operator/client"
)

// Join is a token with the server that machines join.
type Join struct {
	// Server is the https URL of the server for nodes, and Authority are the PEM certificates of
	// its authorities.
	Server    string
	Authority []byte
	// More are the URLs of further servers of the cluster.
	More []string
	// Token is ID.SECRET.
	Token       string
	Description string
	// Lifetime is the time for which the token is valid; 0 means forever.
	Lifetime time.Duration
}

// Create creates the token, and the objects that machines need to join. It needs the rights of an
// administrator. If a value is not valid, it returns an error and creates nothing.
func (j Join) Create(ctx context.Context, cl client.Client) error {
	for _, server := range append([]string{j.Server}, j.More...) {
		if u, err := url.Parse(server); err != nil || u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("--server %q: must be an https URL", server)
		}
	}
	if j.Lifetime < 0 {
		return fmt.Errorf("--ttl %s: must not be negative", j.Lifetime)
	}
	secret, err := secretOf(j.Token, j.Description, j.Lifetime)
	if err != nil {
		return err
	}
	if _, err := j.Args(); err != nil {
		return err
	}
	objects, err := accessObjects(j.Server, j.Authority)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if err := cl.Apply(ctx, obj); err != nil {
			return fmt.Errorf("apply %T %s: %w", obj, obj.GetName(), err)
		}
	}
	if err := cl.Create(ctx, secret); err != nil {
		return fmt.Errorf("create token: %w", err)
	}
	return nil
}

// Args returns the arguments of kelson-node with which a machine joins.
func (j Join) Args() ([]string, error) {
	authorities, err := cert.ParseCertsPEM(j.Authority)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities of %s: %w", j.Server, err)
	}
	args := append([]string{"join", j.Server}, j.More...)
	args = append(args, "--token", j.Token)
	for _, a := range authorities {
		// the form of kubeadm's --discovery-token-ca-cert-hash
		args = append(args, "--ca-hash", fmt.Sprintf("sha256:%x", sha256.Sum256(a.RawSubjectPublicKeyInfo)))
	}
	return args, nil
}
