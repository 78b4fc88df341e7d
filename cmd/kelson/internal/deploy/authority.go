package deploy

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/apiserver/pki"
	"kelson.dev/cmd/kelson/internal/deploy/pack"
	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/operator/client"
)

// keyPair is a certificate authority, as PEM.
type keyPair struct{ cert, key []byte }

// certify fills in the certificate authority of a custom API server: the data of the Secret with
// the annotation kelson.dev/authority, and the caBundle of all APIServices. It keeps the authority
// of the cluster's Secret unless that is missing, invalid or expired. It does nothing for manifests
// without such a Secret.
func (c *clusterFlags) certify(ctx context.Context, objects manifests.Objects) error {
	for _, obj := range objects {
		if obj.GetKind() != "Secret" || obj.GetAnnotations()[pack.AuthorityAnnotation] != "true" {
			continue
		}
		pair, err := c.authority(ctx, client.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()})
		if err != nil {
			return fmt.Errorf("certificate authority in secret %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
		}
		encode := base64.StdEncoding.EncodeToString
		obj.Object["data"] = map[string]any{"ca.crt": encode(pair.cert), "ca.key": encode(pair.key)}
		for _, service := range objects {
			if service.GetKind() != "APIService" {
				continue
			}
			if err := unstructured.SetNestedField(service.Object, encode(pair.cert), "spec", "caBundle"); err != nil {
				return fmt.Errorf("set caBundle of APIService %s: %w", service.GetName(), err)
			}
		}
	}
	return nil
}

// authority returns the authority in a Secret of the cluster, or a new one.
func (c *clusterFlags) authority(ctx context.Context, secret client.Key) (keyPair, error) {
	config, err := c.config()
	if err != nil {
		return keyPair{}, err
	}
	objectClient, err := client.New(client.Config{REST: config, FieldOwner: "kelson"})
	if err != nil {
		return keyPair{}, err
	}
	existing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret"}}
	if err := objectClient.Get(ctx, secret, existing); err != nil && !apierrors.IsNotFound(err) {
		return keyPair{}, err
	}
	data, _, _ := unstructured.NestedStringMap(existing.Object, "data")
	cert, certErr := base64.StdEncoding.DecodeString(data["ca.crt"])
	key, keyErr := base64.StdEncoding.DecodeString(data["ca.key"])
	if found := (keyPair{cert, key}); certErr == nil && keyErr == nil && found.valid(time.Now()) {
		return found, nil
	}
	return newAuthority(secret.Name)
}

// valid reports whether the pair is an authority that has not expired.
func (p keyPair) valid(now time.Time) bool {
	pair, err := tls.X509KeyPair(p.cert, p.key)
	return err == nil && pair.Leaf.IsCA && now.Before(pair.Leaf.NotAfter)
}

func newAuthority(name string) (keyPair, error) {
	authority, err := pki.NewAuthority(name)
	if err != nil {
		return keyPair{}, err
	}
	key, err := authority.KeyPEM()
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{authority.PEM, key}, nil
}
