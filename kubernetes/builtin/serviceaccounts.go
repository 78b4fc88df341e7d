package builtin

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/authentication"
	"k8s.io/kubernetes/pkg/apis/authentication/validation"
	"k8s.io/kubernetes/pkg/apis/core"

	"kelson.dev/apiserver/resource"
	"kelson.dev/kubernetes/tokens"
)

var tokenRequest = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// serviceAccountSubresources returns nil if the control plane does not issue tokens.
func (k *kinds) serviceAccountSubresources() []resource.Subresource {
	if k.cfg.Tokens == nil {
		return nil
	}
	return []resource.Subresource{{
		Name: "token", GVK: tokenRequest, Owners: ownersOfBody(tokenRequest, "token"), Prepare: k.prepareToken,
		Create: k.requestToken,
	}}
}

// prepareToken checks the body of serviceaccounts/token and sets the defaults that depend on the
// account and the server.
func (k *kinds) prepareToken(ctx context.Context, req *resource.Request, body runtime.Object) error {
	tr := body.(*authentication.TokenRequest)
	for _, must := range []struct{ field, got, want string }{{"name", tr.Name, req.Name},
		{"namespace", tr.Namespace, req.Namespace}} {
		if must.got != "" && must.got != must.want {
			path := field.NewPath("metadata", must.field)
			return apierrors.NewInvalid(tokenRequest.GroupKind(), req.Name,
				field.ErrorList{field.Invalid(path, must.got,
					"must match the service account "+must.field+" if specified")})
		}
	}
	account, err := k.accountOf(ctx, req, tr)
	if err != nil {
		return err
	}
	tr.Name, tr.Namespace, tr.UID, tr.CreationTimestamp = account.Name, account.Namespace, account.UID, metav1.Now()
	tr.Status = authentication.TokenRequestStatus{}
	if len(tr.Spec.Audiences) == 0 {
		tr.Spec.Audiences = k.cfg.Tokens.Audiences()
	}
	if errs := validation.ValidateTokenRequest(tr); len(errs) > 0 {
		return apierrors.NewInvalid(tokenRequest.GroupKind(), "", errs)
	}
	return nil
}

// accountOf returns the account of a request, whose UID must be that of the account if it has one.
func (k *kinds) accountOf(ctx context.Context, req *resource.Request,
	tr *authentication.TokenRequest) (*core.ServiceAccount, error) {
	hub, err := req.Objects.Get(ctx, k.resource("", "serviceaccounts"), req.Namespace, req.Name)
	if err != nil {
		return nil, err
	}
	account := hub.(*core.ServiceAccount)
	if tr.UID != "" && tr.UID != account.UID {
		return nil, tokenConflict(tokenRequest, req.Name, fmt.Errorf(
			"the UID in the token request (%s) does not match the UID of the service account (%s)", tr.UID,
			account.UID))
	}
	return account, nil
}

// requestToken serves serviceaccounts/token: it issues a token and does not store it.
func (k *kinds) requestToken(ctx context.Context, req *resource.Request, body runtime.Object) (runtime.Object, error) {
	tr := &authentication.TokenRequest{}
	if err := Scheme().Convert(body, tr, nil); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a TokenRequest object: %T", body))
	}
	account, err := k.accountOf(ctx, req, tr)
	if err != nil {
		return nil, err
	}
	bound, err := k.boundTo(ctx, req, tr.Spec.BoundObjectRef)
	if err != nil {
		return nil, err
	}
	lifetime := time.Duration(tr.Spec.ExpirationSeconds) * time.Second
	if longest := k.cfg.Tokens.MaxLifetime(); longest > 0 && lifetime > longest {
		warning.AddWarning(ctx, "", fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds",
			tr.Spec.ExpirationSeconds, int64(longest/time.Second)))
		lifetime, tr.Spec.ExpirationSeconds = longest, int64(longest/time.Second)
	}
	if tr.Status.Token, err = k.cfg.Tokens.Issue(ctx, account, bound, tr.Spec.Audiences, lifetime); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	tr.Status.ExpirationTimestamp = metav1.NewTime(tr.CreationTimestamp.Add(lifetime))
	out := &authenticationv1.TokenRequest{}
	if err := Scheme().Convert(tr, out, nil); err != nil {
		return nil, fmt.Errorf("answer token request: %w", err)
	}
	out.SetGroupVersionKind(tokenRequest)
	return out, nil
}

func tokenConflict(kind schema.GroupVersionKind, name string, cause error) error {
	return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, name, cause)
}

// boundTo returns the object to which a token will be bound. The object must exist and have the
// given UID. A pod must also run as the service account.
func (k *kinds) boundTo(ctx context.Context, req *resource.Request,
	ref *authentication.BoundObjectReference) (bound tokens.Bound, err error) {
	if ref == nil {
		return bound, nil
	}
	var obj runtime.Object
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	switch kind.GroupKind() {
	case core.Kind("Pod"):
		if obj, err = req.Objects.Get(ctx, k.resource("", "pods"), req.Namespace, ref.Name); err != nil {
			return bound, err
		}
		bound.Pod = obj.(*core.Pod)
		if bound.Pod.Spec.ServiceAccountName != req.Name {
			return bound, apierrors.NewBadRequest(fmt.Sprintf(
				"cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", req.Name))
		}
		if bound.Node, err = k.nodeOf(ctx, req.Objects, bound.Pod); err != nil {
			return bound, err
		}
	case core.Kind("Node"):
		if obj, err = req.Objects.Get(ctx, k.resource("", "nodes"), "", ref.Name); err != nil {
			return bound, err
		}
		bound.Node = obj.(*core.Node)
	case core.Kind("Secret"):
		if obj, err = req.Objects.Get(ctx, k.resource("", "secrets"), req.Namespace, ref.Name); err != nil {
			return bound, err
		}
		bound.Secret = obj.(*core.Secret)
	default:
		return bound, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", kind))
	}
	if uid := uidOf(obj); ref.UID != "" && ref.UID != uid {
		return bound, tokenConflict(kind, ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. "+
				"The object might have been deleted and then recreated", ref.UID))
	}
	return bound, nil
}

// nodeOf returns the node of a pod, or nil for a pod without a node. If the Node object does not
// exist, the result has only a name.
func (k *kinds) nodeOf(ctx context.Context, objects resource.Objects, p *core.Pod) (*core.Node, error) {
	if p.Spec.NodeName == "" {
		return nil, nil
	}
	hub, err := objects.Get(ctx, k.resource("", "nodes"), "", p.Spec.NodeName)
	switch {
	case apierrors.IsNotFound(err):
		return &core.Node{ObjectMeta: metav1.ObjectMeta{Name: p.Spec.NodeName}}, nil
	case err != nil:
		return nil, err
	}
	return hub.(*core.Node), nil
}

func uidOf(obj runtime.Object) types.UID {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetUID()
}
