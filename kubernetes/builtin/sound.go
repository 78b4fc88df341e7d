package builtin

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"

	"kelson.dev/apiserver/resource"
)

// The library validates an object in three passes and more, over the metadata in its two forms, with a path for whatever could be wrong. Of ConfigMaps and
// Secrets, of which there are many, one look says that nothing is. Of the others it says nothing: they are the library's, and so are the errors.

// bags is the strategy of a kind that holds no more than data.
type bags struct{ bagStrategy }

type bagStrategy interface {
	resource.Strategy
	upstream.DeclarativeValidationStrategy
}

var _ resource.Shortcut = bags{}

// BeforeCreate implements [resource.Shortcut]. These kinds have nothing that must be prepared.
func (bags) BeforeCreate(ctx context.Context, hub runtime.Object) (errs field.ErrorList, done bool) {
	m, ok := soundBag(ctx, hub)
	return nil, ok && m.UID != "" && !m.CreationTimestamp.IsZero() && m.Generation >= 0
}

// BeforeUpdate implements [resource.Shortcut].
func (bags) BeforeUpdate(ctx context.Context, hub, old runtime.Object) (errs field.ErrorList, done bool) {
	next, ok := soundBag(ctx, hub)
	if !ok || next.ResourceVersion == "" {
		return nil, false
	}
	was, ok := mutable(old)
	if !ok || was.Name != next.Name || was.Namespace != next.Namespace || was.UID == "" || next.UID != "" && next.UID != was.UID || was.CreationTimestamp.IsZero() ||
		was.Generation < 0 || was.DeletionTimestamp != nil || was.DeletionGracePeriodSeconds != nil {
		return nil, false
	}
	next.Generation, next.UID, next.CreationTimestamp = was.Generation, was.UID, was.CreationTimestamp
	return nil, true
}

// soundBag gives the metadata of an object if there is nothing to object to in it and in the data.
func soundBag(ctx context.Context, hub runtime.Object) (m *metav1.ObjectMeta, ok bool) {
	size := 0
	switch bag := hub.(type) {
	case *core.ConfigMap:
		m = &bag.ObjectMeta
		if len(bag.BinaryData) > 0 {
			return nil, false
		}
		for key, value := range bag.Data {
			if size += len(value); !soundKey(key) {
				return nil, false
			}
		}
	case *core.Secret:
		m = &bag.ObjectMeta
		if bag.Type != core.SecretTypeOpaque {
			return nil, false
		}
		for key, value := range bag.Data {
			if size += len(value); !soundKey(key) {
				return nil, false
			}
		}
	default:
		return nil, false
	}
	return m, size <= core.MaxSecretSize && soundMetadata(ctx, m)
}

// mutable gives the metadata of an object whose data may change.
func mutable(hub runtime.Object) (m *metav1.ObjectMeta, ok bool) {
	switch bag := hub.(type) {
	case *core.ConfigMap:
		return &bag.ObjectMeta, bag.Immutable == nil || !*bag.Immutable
	case *core.Secret:
		return &bag.ObjectMeta, bag.Type == core.SecretTypeOpaque && (bag.Immutable == nil || !*bag.Immutable)
	}
	return nil, false
}

// soundMetadata says that there is nothing to object to in the metadata of an object in a namespace that is not being deleted.
func soundMetadata(ctx context.Context, m *metav1.ObjectMeta) bool {
	namespace, ok := request.NamespaceFrom(ctx)
	if !ok || m.Namespace != namespace || !isLabelOfDNS(namespace) || !isSubdomain(m.Name) || m.GenerateName != "" ||
		m.DeletionTimestamp != nil || m.DeletionGracePeriodSeconds != nil {
		return false
	}
	for key, value := range m.Labels {
		if !isQualified(key) || value != "" && !isName(value) {
			return false
		}
	}
	size := 0
	for key, value := range m.Annotations {
		if size += len(key) + len(value); !isQualified(key) {
			return false
		}
	}
	for _, finalizer := range m.Finalizers {
		if !isQualified(finalizer) || !strings.Contains(finalizer, "/") { // those without have rules of their own
			return false
		}
	}
	return size < 256<<10 && soundOwners(m.OwnerReferences) && soundManagers(m.ManagedFields)
}

func soundOwners(owners []metav1.OwnerReference) bool {
	controllers := 0
	for _, owner := range owners {
		group, version, grouped := strings.Cut(owner.APIVersion, "/")
		if !grouped {
			version = group
		}
		if !isName(version) || grouped && !isSubdomain(group) || owner.Kind == "" || owner.Kind == "Event" || owner.Name == "" || owner.UID == "" {
			return false
		}
		if owner.Controller != nil && *owner.Controller {
			controllers++
		}
	}
	return controllers < 2
}

// soundManagers says that managers are such as this server writes.
func soundManagers(managers []metav1.ManagedFieldsEntry) bool {
	for _, e := range managers {
		if e.Operation != metav1.ManagedFieldsOperationApply && e.Operation != metav1.ManagedFieldsOperationUpdate || e.FieldsType != "FieldsV1" || e.FieldsV1 == nil ||
			e.APIVersion == "" || e.Subresource != "" || len(e.Manager) == 0 || len(e.Manager) > validation.FieldManagerMaxLength {
			return false
		}
		for i := range len(e.Manager) {
			if c := e.Manager[i]; c < ' ' || c >= 0x7f {
				return false
			}
		}
	}
	return true
}

// soundKey says that something can be the key of data.
func soundKey(key string) bool {
	if len(key) == 0 || len(key) > 253 || key == "." || strings.HasPrefix(key, "..") {
		return false
	}
	for i := range len(key) {
		if !isNameByte(key[i]) {
			return false
		}
	}
	return true
}

// isQualified says that a word is a name with a domain before it, or without.
func isQualified(word string) bool {
	if domain, name, ok := strings.Cut(word, "/"); ok {
		return isSubdomain(domain) && isName(name)
	}
	return isName(word)
}

// isName says that a word is what a label may have as its value, and not empty.
func isName(word string) bool {
	if len(word) == 0 || len(word) > 63 || !isAlphanumeric(word[0]) || !isAlphanumeric(word[len(word)-1]) {
		return false
	}
	for i := range len(word) {
		if !isNameByte(word[i]) {
			return false
		}
	}
	return true
}

func isSubdomain(word string) bool {
	if len(word) > 253 {
		return false
	}
	for part := range strings.SplitSeq(word, ".") {
		if !isLabelOfDNS(part) {
			return false
		}
	}
	return true
}

func isLabelOfDNS(word string) bool {
	if len(word) == 0 || len(word) > 63 || word[0] == '-' || word[len(word)-1] == '-' {
		return false
	}
	for i := range len(word) {
		if c := word[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

func isNameByte(c byte) bool { return isAlphanumeric(c) || c == '-' || c == '_' || c == '.' }

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
