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

// The library validates an object in three or more passes, reads its metadata both as a struct and
// through an interface, and builds a path for every check. The fast path in this file decides in
// one pass that a ConfigMap or an opaque Secret is certainly valid: a create takes 0.4 µs instead
// of 15 µs (BenchmarkFastPath). The library handles all other objects and all errors.

// dataStrategy is the strategy of ConfigMaps or Secrets with the fast path.
type dataStrategy struct{ libraryStrategy }

type libraryStrategy interface {
	resource.Strategy
	upstream.DeclarativeValidationStrategy
}

var _ resource.Shortcut = dataStrategy{}

// BeforeCreate implements [resource.Shortcut]. The library's PrepareForCreate does nothing for
// these kinds.
func (dataStrategy) BeforeCreate(ctx context.Context, hub runtime.Object) (errs field.ErrorList, done bool) {
	m, ok := soundData(ctx, hub)
	return nil, ok && m.UID != "" && !m.CreationTimestamp.IsZero() && m.Generation >= 0
}

// BeforeUpdate implements [resource.Shortcut].
func (dataStrategy) BeforeUpdate(ctx context.Context, hub, old runtime.Object) (errs field.ErrorList, done bool) {
	next, ok := soundData(ctx, hub)
	if !ok || next.ResourceVersion == "" {
		return nil, false
	}
	previous, ok := mutable(old)
	if !ok || previous.Name != next.Name || previous.Namespace != next.Namespace || previous.UID == "" ||
		next.UID != "" && next.UID != previous.UID || previous.CreationTimestamp.IsZero() ||
		previous.Generation < 0 || previous.DeletionTimestamp != nil || previous.DeletionGracePeriodSeconds != nil {
		return nil, false
	}
	next.Generation, next.UID, next.CreationTimestamp = previous.Generation, previous.UID, previous.CreationTimestamp
	return nil, true
}

// soundData returns the metadata of an object if it and the data are certainly valid.
func soundData(ctx context.Context, hub runtime.Object) (m *metav1.ObjectMeta, ok bool) {
	size := 0
	switch data := hub.(type) {
	case *core.ConfigMap:
		m = &data.ObjectMeta
		if len(data.BinaryData) > 0 {
			return nil, false
		}
		for key, value := range data.Data {
			if size += len(value); !soundKey(key) {
				return nil, false
			}
		}
	case *core.Secret:
		m = &data.ObjectMeta
		if data.Type != core.SecretTypeOpaque {
			return nil, false
		}
		for key, value := range data.Data {
			if size += len(value); !soundKey(key) {
				return nil, false
			}
		}
	default:
		return nil, false
	}
	return m, size <= core.MaxSecretSize && soundMetadata(ctx, m)
}

// mutable returns the metadata of an object, and whether its data may change.
func mutable(hub runtime.Object) (m *metav1.ObjectMeta, ok bool) {
	switch data := hub.(type) {
	case *core.ConfigMap:
		return &data.ObjectMeta, data.Immutable == nil || !*data.Immutable
	case *core.Secret:
		return &data.ObjectMeta, data.Type == core.SecretTypeOpaque && (data.Immutable == nil || !*data.Immutable)
	}
	return nil, false
}

// soundMetadata reports whether the metadata of a namespaced object that is not being deleted is
// certainly valid.
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
		// finalizers without a domain have other rules
		if !isQualified(finalizer) || !strings.Contains(finalizer, "/") {
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
		if !isName(version) || grouped && !isSubdomain(group) || owner.Kind == "" || owner.Kind == "Event" ||
			owner.Name == "" || owner.UID == "" {
			return false
		}
		if owner.Controller != nil && *owner.Controller {
			controllers++
		}
	}
	return controllers < 2
}

// soundManagers reports whether managers have the form that this server writes.
func soundManagers(managers []metav1.ManagedFieldsEntry) bool {
	for _, e := range managers {
		if e.Operation != metav1.ManagedFieldsOperationApply && e.Operation != metav1.ManagedFieldsOperationUpdate ||
			e.FieldsType != "FieldsV1" || e.FieldsV1 == nil ||
			e.APIVersion == "" || e.Subresource != "" || len(e.Manager) == 0 ||
			len(e.Manager) > validation.FieldManagerMaxLength {
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

// soundKey reports whether a key of data is valid.
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

// isQualified reports whether a string is a name with an optional domain prefix.
func isQualified(word string) bool {
	if domain, name, ok := strings.Cut(word, "/"); ok {
		return isSubdomain(domain) && isName(name)
	}
	return isName(word)
}

// isName reports whether a string is a non-empty label value.
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
