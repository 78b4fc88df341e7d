package rest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
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
	for _, ref := range refs {
		same := func(other metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(ref, other) }
		if slices.ContainsFunc(kept, same) {
			repeated = append(repeated, string(ref.UID))
			continue
		}
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

// managerName is the field manager of a write: the one named, else the first part of the user agent as far as it can be a name.
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
