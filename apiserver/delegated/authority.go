package delegated

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/pki"
)

// The keys of a Secret with a certificate authority.
const (
	authorityCert = "ca.crt"
	authorityKey  = "ca.key"
)

// Authority returns the certificate authority in an existing Secret of the cluster. If the Secret
// has none, or an expired one, Authority creates an authority and writes it to the Secret. If
// several servers do this at the same time, one succeeds and the others use its authority.
func Authority(ctx context.Context, cluster *rest.Config, secret types.NamespacedName) (*pki.Authority, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("create client of the cluster: %w", err)
	}
	for {
		authority, err := authorityIn(ctx, client, secret)
		if !apierrors.IsConflict(err) {
			return authority, err
		}
	}
}

// authorityIn is one attempt of Authority.
func authorityIn(ctx context.Context, client kubernetes.Interface,
	secret types.NamespacedName) (*pki.Authority, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	secrets := client.CoreV1().Secrets(secret.Namespace)
	current, err := secrets.Get(ctx, secret.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get secret %s of the certificate authority: %w", secret, err)
	}
	if len(current.Data[authorityCert]) > 0 {
		found, err := pki.ParseAuthority(current.Data[authorityCert], current.Data[authorityKey],
			"in secret "+secret.String())
		if found != nil || !pki.Expired(current.Data[authorityCert], time.Now()) {
			return found, err
		}
	}
	authority, err := pki.NewAuthority(secret.Name)
	if err != nil {
		return nil, err
	}
	key, err := authority.KeyPEM()
	if err != nil {
		return nil, err
	}
	if current.Data == nil {
		current.Data = map[string][]byte{}
	}
	current.Data[authorityCert], current.Data[authorityKey] = authority.PEM, key
	if _, err := secrets.Update(ctx, current, metav1.UpdateOptions{FieldManager: publisher}); err != nil {
		return nil, fmt.Errorf("write certificate authority to secret %s: %w", secret, err)
	}
	return authority, nil
}

const (
	// publisher is the field manager of a server's writes to the cluster.
	publisher = "apiserver"
	// After publishSoon, the APIServices are read again if one is missing or was not written;
	// otherwise after publishLater.
	publishSoon  = 2 * time.Second
	publishLater = time.Minute
)

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// Publish writes a certificate authority to the caBundle of the APIServices of the versions until
// ctx ends. It does not change APIServices whose service is in another namespace, and waits for
// those that do not exist yet. It logs a problem once, not at each attempt.
func Publish(ctx context.Context, cluster *rest.Config, versions []schema.GroupVersion, namespace string,
	authority []byte, log *slog.Logger) error {
	client, err := dynamic.NewForConfig(cluster)
	if err != nil {
		return fmt.Errorf("create client of the cluster: %w", err)
	}
	logged := map[string]string{}
	for {
		next := publishLater
		for _, gv := range versions {
			name := gv.Version + "." + gv.Group
			problem := ""
			if err := publish(ctx, client, name, namespace, authority); err != nil {
				problem, next = err.Error(), publishSoon
			}
			if ctx.Err() == nil && problem != "" && problem != logged[name] {
				log.Warn("the cluster cannot verify the server's certificate yet", "apiservice", name, "err", problem)
			}
			logged[name] = problem
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
		}
	}
}

// publish writes the authority to one APIService, unless it has it.
func publish(ctx context.Context, client dynamic.Interface, name, namespace string, authority []byte) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	obj, err := client.Resource(apiServices).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var current struct {
		Spec struct {
			CABundle []byte
			Service  *struct{ Namespace, Name string }
		}
	}
	data, err := obj.MarshalJSON()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &current); err != nil {
		return fmt.Errorf("decode APIService: %w", err)
	}
	switch {
	case current.Spec.Service == nil:
		return fmt.Errorf("the APIService has no service: the cluster serves %s itself", name)
	case current.Spec.Service.Namespace != namespace:
		return fmt.Errorf("the APIService names service %s/%s, not one in namespace %s", current.Spec.Service.Namespace,
			current.Spec.Service.Name, namespace)
	case bytes.Equal(current.Spec.CABundle, authority):
		return nil
	}
	// With the precondition, a service that changes meanwhile does not get this authority.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": obj.GetResourceVersion()},
		"spec":     map[string]any{"caBundle": authority, "insecureSkipTLSVerify": false},
	})
	if err != nil {
		return err
	}
	_, err = client.Resource(apiServices).Patch(ctx, name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: publisher})
	return err
}
