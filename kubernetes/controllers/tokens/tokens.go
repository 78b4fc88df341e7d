// Package tokens replaces serviceaccount-token-controller,
// legacy-serviceaccount-token-cleaner-controller and token-cleaner-controller: it maintains the
// tokens that are stored in Secrets.
//
//	kubernetes.io/service-account-token   filled with a token of the account in its annotation, the
//	                                      namespace and the root certificate; deleted with the account.
//	                                      If the account lists it: marked as invalid after a year without
//	                                      use, and deleted after another year
//	bootstrap.kubernetes.io/token         deleted when it expires, in kube-system
//
// An account may be deleted and created again. A Secret whose annotation has the uid of the
// previous account is deleted.
package tokens

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cluster-bootstrap/token/api"
	secretutil "k8s.io/cluster-bootstrap/util/secrets"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
)

// Config configures the controller. All fields except Uses, RootCA and Log are required.
type Config struct {
	Store *store.Store
	// Client writes and deletes the Secrets of accounts.
	Client client.Client
	// Bootstrap deletes expired bootstrap tokens, and Unused marks and deletes tokens that are not
	// used.
	Bootstrap, Unused client.Client
	// Server records since when the use of tokens is tracked.
	Server client.Client
	// Issue signs the token of an account for a Secret.
	Issue func(context.Context, *corev1.ServiceAccount, *corev1.Secret) (string, error)
	// Uses reports whether a pod uses a Secret. If nil, no pod does.
	Uses func(pod *corev1.Pod, secret string) bool
	// RootCA is stored in the Secrets of accounts, unless it is nil.
	RootCA []byte
	Log    *slog.Logger
}

// Controller maintains the tokens of one control plane.
type Controller struct{ cfg Config }

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller { return &Controller{cfg} }

const (
	secrets  = "secrets"
	accounts = "serviceaccounts"
)

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	return follow.Run(ctx, follow.Config[store.Key]{
		Name: "tokens in secrets", Store: c.cfg.Store, Resources: []string{secrets, accounts}, Log: c.cfg.Log,
		Sync: c.sync,
		Keys: func(obj *store.Object, add func(store.Key)) {
			if obj.Key.Resource == secrets && !mayHoldToken(obj.Data) {
				return
			}
			add(obj.Key)
		},
	})
}

// mayHoldToken reports, without decoding a Secret, whether it can be of one of the two types.
func mayHoldToken(data []byte) bool {
	return bytes.Contains(data, []byte(corev1.SecretTypeServiceAccountToken)) ||
		bytes.Contains(data, []byte(api.SecretTypeBootstrapToken))
}

func (c *Controller) sync(ctx context.Context, key store.Key) (again time.Duration, err error) {
	sn := c.cfg.Store.Snapshot()
	if key.Resource == accounts {
		return c.syncAccount(ctx, sn, key)
	}
	secret, err := derived.Get[corev1.Secret](sn, secrets, key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil || secret.DeletionTimestamp != nil {
		return 0, err
	}
	switch secret.Type {
	case corev1.SecretTypeServiceAccountToken:
		return c.syncToken(ctx, sn, secret)
	case corev1.SecretType(api.SecretTypeBootstrapToken):
		if key.Namespace != metav1.NamespaceSystem {
			return 0, nil
		}
		left, expired := secretutil.GetExpiration(secret, time.Now())
		if expired {
			return 0, c.delete(ctx, c.cfg.Bootstrap, secret)
		}
		return left, nil
	}
	return 0, nil
}

// syncAccount syncs all token Secrets that name an account, whether the account exists or not.
func (c *Controller) syncAccount(ctx context.Context, sn *store.Snapshot,
	key store.Key) (again time.Duration, err error) {
	for obj := range sn.Scan(secrets, key.Namespace, store.Key{}) {
		if !mayHoldToken(obj.Data) {
			continue
		}
		secret, err := derived.Of[corev1.Secret](obj)
		if err != nil {
			return 0, err
		}
		if secret.Type == corev1.SecretTypeServiceAccountToken && secret.DeletionTimestamp == nil &&
			secret.Annotations[corev1.ServiceAccountNameKey] == key.Name {
			next, err := c.syncToken(ctx, sn, secret)
			if err != nil {
				return 0, err
			}
			if next > 0 && (again == 0 || next < again) {
				again = next
			}
		}
	}
	return again, nil
}

// syncToken fills a Secret. It deletes the Secret if its account does not exist, and otherwise
// checks for disuse.
func (c *Controller) syncToken(ctx context.Context, sn *store.Snapshot,
	secret *corev1.Secret) (again time.Duration, err error) {
	name, uid := secret.Annotations[corev1.ServiceAccountNameKey],
		types.UID(secret.Annotations[corev1.ServiceAccountUIDKey])
	if name == "" {
		return 0, nil
	}
	account, err := derived.Get[corev1.ServiceAccount](sn, accounts, secret.Namespace, name)
	switch {
	case apierrors.IsNotFound(err), err == nil && uid != "" && uid != account.UID:
		return 0, c.delete(ctx, c.cfg.Client, secret)
	case err != nil:
		return 0, err
	}
	filled := secret.DeepCopy()
	if filled.Data == nil {
		filled.Data = map[string][]byte{}
	}
	if len(c.cfg.RootCA) > 0 {
		filled.Data[corev1.ServiceAccountRootCAKey] = c.cfg.RootCA
	}
	if len(filled.Data[corev1.ServiceAccountNamespaceKey]) == 0 {
		filled.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	if len(filled.Data[corev1.ServiceAccountTokenKey]) == 0 {
		token, err := c.cfg.Issue(ctx, account, secret)
		if err != nil {
			return 0, err
		}
		filled.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	if maps.EqualFunc(filled.Data, secret.Data, bytes.Equal) {
		return c.clearUnused(ctx, sn, account, secret)
	}
	filled.Annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	return 0, c.written(c.cfg.Client.Update(ctx, filled), "fill", secret)
}

func (c *Controller) delete(ctx context.Context, as client.Client, secret *corev1.Secret) error {
	return c.written(as.Delete(ctx, secret, client.Preconditions{UID: secret.UID}), "delete", secret)
}
