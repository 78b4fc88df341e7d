package rest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/warning"
)

// dedupOwners removes repeated owner references, with a warning.
func dedupOwners(ctx context.Context, obj runtime.Object, afterAdmission bool) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	refs := object.GetOwnerReferences()
	if len(refs) < 2 {
		return
	}
	var kept []metav1.OwnerReference
	var repeated []string
	seen := make(map[ownerKey]bool, len(refs))
	for _, ref := range refs {
		key := keyOfOwner(ref)
		if seen[key] {
			repeated = append(repeated, string(ref.UID))
			continue
		}
		seen[key] = true
		kept = append(kept, ref)
	}
	if len(repeated) == 0 {
		return
	}
	format := handlers.DuplicateOwnerReferencesWarningFormat
	if afterAdmission {
		format = handlers.DuplicateOwnerReferencesAfterMutatingAdmissionWarningFormat
	}
	warning.AddWarning(ctx, "", fmt.Sprintf(format, strings.Join(repeated, ", ")))
	object.SetOwnerReferences(kept)
}

// ownerKey is the content of an owner reference, to find repetitions.
type ownerKey struct {
	apiVersion, kind, name, uid string
	controller, blocks          int8 // -1: not set
}

func keyOfOwner(ref metav1.OwnerReference) ownerKey {
	return ownerKey{ref.APIVersion, ref.Kind, ref.Name, string(ref.UID), truth(ref.Controller),
		truth(ref.BlockOwnerDeletion)}
}

func truth(b *bool) int8 {
	switch {
	case b == nil:
		return -1
	case *b:
		return 1
	}
	return 0
}

// managerName returns the field manager of a write: the requested one, or else the valid beginning
// of the user agent.
func managerName(manager, userAgent string) string {
	if manager != "" {
		return manager
	}
	agent, _, _ := strings.Cut(userAgent, "/")
	var name bytes.Buffer
	for _, r := range agent {
		if !unicode.IsPrint(r) {
			continue
		}
		if name.Len()+utf8.RuneLen(r) > validation.FieldManagerMaxLength {
			break
		}
		name.WriteRune(r)
	}
	return name.String()
}
