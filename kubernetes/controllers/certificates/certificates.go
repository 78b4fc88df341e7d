// Package certificates replaces kube-controller-manager's
// certificatesigningrequest-approving-controller, certificatesigningrequest-signing-controller,
// certificatesigningrequest-cleaner-controller and podcertificaterequest-cleaner-controller.
//
//	new ──▶ approved, if it is for a kubelet's own certificate and the requester may have it; serving
//	        certificates only with Config.ApproveServing
//	approved ──▶ signed or failed, if the signer is one of those below
//	approved, denied, failed, expired, undecided ──▶ deleted after some time
//
// The signers are kubernetes.io/kube-apiserver-client, kube-apiserver-client-kubelet,
// kubelet-serving and legacy-unknown. All sign with one authority, under the same rules as
// Kubernetes. The controller approves a request if the authorizer allows the requester to create
// certificatesigningrequests/nodeclient or selfnodeclient. The package has no signer for
// PodCertificateRequests; a controller in the cluster must sign them.
//
//	c := certificates.New(certificates.Config{Store: st, Client: own, Authorizer: may, Authority: ca.Certificate, Key: ca.Key()})
//	err := c.Run(ctx)
package certificates

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/util/certificate/csr"
	rules "k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/controller/certificates/authority"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
)

// Config configures the controller. Store and Client are required.
type Config struct {
	Store *store.Store
	// Client writes and deletes requests.
	Client client.Client
	// Serving approves the serving certificates of kubelets, and PodRequests deletes
	// PodCertificateRequests; nil means Client.
	Serving, PodRequests client.Client
	// Authorizer decides who may get a kubelet's certificate. If nil, no request is approved
	// automatically.
	Authorizer authorizer.UnconditionalAuthorizer
	// ApproveServing approves the serving certificates of kubelets for their own names and
	// addresses. Kubernetes leaves them to an administrator.
	ApproveServing bool
	// Authority and Key sign certificates. If Key is nil, nothing is signed.
	Authority *x509.Certificate
	Key       crypto.Signer
	// Lifetime is the longest lifetime of a certificate; 0 means DefaultLifetime.
	Lifetime time.Duration
	Log      *slog.Logger
}

// Controller handles the certificate requests of one control plane.
type Controller struct{ cfg Config }

// DefaultLifetime is the lifetime of certificates whose request names none.
const DefaultLifetime = 365 * 24 * time.Hour

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Serving == nil {
		cfg.Serving = cfg.Client
	}
	if cfg.PodRequests == nil {
		cfg.PodRequests = cfg.Client
	}
	if cfg.Lifetime == 0 {
		cfg.Lifetime = DefaultLifetime
	}
	return &Controller{cfg}
}

const resource = "certificatesigningrequests.certificates.k8s.io"

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	return follow.Run(ctx, follow.Config[store.Key]{
		Name: "certificates", Store: c.cfg.Store, Resources: []string{resource, podRequests}, Log: c.cfg.Log,
		Sync: c.sync,
		Keys: func(obj *store.Object, add func(store.Key)) { add(obj.Key) },
	})
}

func (c *Controller) sync(ctx context.Context, key store.Key) (again time.Duration, err error) {
	if key.Resource == podRequests {
		return c.clearPodRequest(ctx, key.Namespace, key.Name)
	}
	return c.syncRequest(ctx, key.Name)
}

func (c *Controller) syncRequest(ctx context.Context, name string) (again time.Duration, err error) {
	stored, err := derived.Get[certificatesv1.CertificateSigningRequest](c.cfg.Store.Snapshot(), resource, "", name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	end, ends := due(stored)
	// a request is deleted after its end, not at it
	left := max(time.Until(end), 0) + time.Nanosecond
	var retry time.Duration
	switch {
	case ends && time.Now().After(end):
		err = c.cfg.Client.Delete(ctx, stored, client.Preconditions{UID: stored.UID})
	case len(stored.Status.Certificate) > 0, holds(stored, certificatesv1.CertificateDenied),
		holds(stored, certificatesv1.CertificateFailed):
	case holds(stored, certificatesv1.CertificateApproved):
		err = c.sign(ctx, stored.DeepCopy())
	default:
		retry, err = c.approve(ctx, stored.DeepCopy())
	}
	if err != nil {
		// A conflict means that there is a newer state, which is read when the key is synced again.
		return 0, follow.IgnoreGone(c.cfg.Store, store.Key{Resource: resource, Name: name}, stored.UID, err)
	}
	if !ends || retry > 0 {
		left = retry
	}
	return left, nil
}

// approve approves requests of kubelets for client and serving certificates. If retry is not 0, the
// decision may change after that time.
func (c *Controller) approve(ctx context.Context,
	r *certificatesv1.CertificateSigningRequest) (retry time.Duration, err error) {
	request, err := rules.ParseCSR(r.Spec.Request)
	if err != nil {
		return 0, nil // an invalid request stays invalid
	}
	if r.Spec.SignerName == certificatesv1.KubeletServingSignerName {
		return c.approveServing(ctx, r, request)
	}
	if c.cfg.Authorizer == nil || r.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName ||
		!rules.IsKubeletClientCSR(request, names(r.Spec.Usages)) {
		return 0, nil
	}
	self := r.Spec.Username == request.Subject.CommonName
	for _, form := range []struct {
		applies     bool
		subresource string
		message     string
	}{
		{self, "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."},
		{true, "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."},
	} {
		if !form.applies {
			continue
		}
		allowed, err := c.permitted(ctx, r, form.subresource)
		if err != nil {
			return 0, err
		}
		if !allowed {
			continue
		}
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved",
			Message: form.message,
		})
		return 0, c.cfg.Client.Subresource("approval").Update(ctx, r, nil)
	}
	return 0, nil
}

// permitted reports whether the requester may create the given subresource of
// certificatesigningrequests.
func (c *Controller) permitted(ctx context.Context, r *certificatesv1.CertificateSigningRequest,
	subresource string) (bool, error) {
	extra := map[string][]string{}
	for k, v := range r.Spec.Extra {
		extra[k] = v
	}
	decision, _, err := c.cfg.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups, Extra: extra},
		Verb: "create", APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "certificatesigningrequests",
		Subresource:     subresource,
		ResourceRequest: true,
	})
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	return false, err
}

// sign issues the certificate of an approved request, or adds the condition Failed with the reason.
func (c *Controller) sign(ctx context.Context, r *certificatesv1.CertificateSigningRequest) error {
	check, supported := signers[r.Spec.SignerName]
	if !supported || c.cfg.Key == nil {
		return nil
	}
	request, err := rules.ParseCSR(r.Spec.Request)
	if err != nil {
		return nil
	}
	if err := check(request, r.Spec.Usages); err != nil {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure",
			Message:        err.Error(),
			LastUpdateTime: metav1.Now(),
		})
		return c.cfg.Client.Subresource("status").Update(ctx, r, nil)
	}
	by := authority.CertificateAuthority{Certificate: c.cfg.Authority, PrivateKey: c.cfg.Key}
	der, err := by.Sign(request.Raw, authority.PermissiveSigningPolicy{
		TTL: c.lifetime(r), Usages: r.Spec.Usages, Backdate: 5 * time.Minute, Short: 8 * time.Hour,
	})
	if err != nil {
		return fmt.Errorf("sign %s: %w", r.Name, err)
	}
	r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return c.cfg.Client.Subresource("status").Update(ctx, r, nil)
}

// lifetime returns the requested lifetime, between ten minutes and Config.Lifetime.
func (c *Controller) lifetime(r *certificatesv1.CertificateSigningRequest) time.Duration {
	if r.Spec.ExpirationSeconds == nil {
		return c.cfg.Lifetime
	}
	const shortest = 10 * time.Minute
	return min(c.cfg.Lifetime, max(shortest, csr.ExpirationSecondsToDuration(*r.Spec.ExpirationSeconds)))
}
