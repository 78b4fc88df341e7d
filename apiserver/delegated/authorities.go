package delegated

import (
	"context"
	"crypto/x509"
	"fmt"

	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// authorities has the certificate authorities that the cluster publishes in a ConfigMap, and
// follows their changes. Until the watch of the ConfigMap has begun, it has those that New read.
type authorities struct {
	followed *dynamiccertificates.ConfigMapCAController
	read     []byte
	options  x509.VerifyOptions
}

// followAuthorities follows a key of the ConfigMap until ctx ends. read is the value that New read.
// The watch begins in the background, because its start takes tenths of a second.
func followAuthorities(ctx context.Context, client kubernetes.Interface, key string,
	read []byte) (*authorities, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(read) {
		return nil, fmt.Errorf("read %s of %s/%s: no valid authority", key, namespace, name)
	}
	followed, err := dynamiccertificates.NewDynamicCAFromConfigMapController(key, namespace, name, key, client)
	if err != nil {
		return nil, fmt.Errorf("follow the cluster's authorities: %w", err)
	}
	go followed.Run(ctx, 1)
	options := x509request.DefaultVerifyOptions()
	options.Roots = pool
	return &authorities{followed: followed, read: read, options: options}, nil
}

// VerifyOptions returns the options for verifying certificates.
func (a *authorities) VerifyOptions() (x509.VerifyOptions, bool) {
	if options, ok := a.followed.VerifyOptions(); ok {
		return options, true
	}
	return a.options, true
}

// content returns the authorities as PEM.
func (a *authorities) content() []byte {
	if content := a.followed.CurrentCABundleContent(); content != nil {
		return content
	}
	return a.read
}
