package namespace

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientdiscovery "k8s.io/client-go/discovery"
)

// setConditions sets the conditions that report why the namespace is not deleted yet, with the
// reasons and messages of Kubernetes' namespace controller. It reports whether anything changed.
func setConditions(ns *corev1.Namespace, found *content) bool {
	changed := false
	for _, want := range []corev1.NamespaceCondition{
		conditionOf(corev1.NamespaceDeletionDiscoveryFailure, found.undiscovered != nil, "DiscoveryFailed",
			discoveryFailure(found.undiscovered),
			"ResourcesDiscovered", "All resources successfully discovered"),
		conditionOf(corev1.NamespaceDeletionGVParsingFailure, false, "", "",
			"ParsedGroupVersions", "All legacy kube types successfully parsed"),
		conditionOf(corev1.NamespaceDeletionContentFailure, len(found.failed) > 0, "ContentDeletionFailed",
			contentFailure(found.failed),
			"ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
		conditionOf(corev1.NamespaceContentRemaining, len(found.left) > 0, "SomeResourcesRemain",
			"Some resources are remaining: "+counted(found.left, "%s has %d resource instances"),
			"ContentRemoved", "All content successfully removed"),
		conditionOf(corev1.NamespaceFinalizersRemaining, len(found.finalizers) > 0, "SomeFinalizersRemain",
			"Some content in the namespace has finalizers remaining: "+
				counted(found.finalizers, "%s in %d resource instances"),
			"ContentHasNoFinalizers", "All content-preserving finalizers finished"),
	} {
		changed = setCondition(ns, want) || changed
	}
	return changed
}

func conditionOf(kind corev1.NamespaceConditionType, bad bool,
	badReason, badMessage, goodReason, goodMessage string) corev1.NamespaceCondition {
	if bad {
		return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionTrue, Reason: badReason,
			Message: badMessage}
	}
	return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionFalse, Reason: goodReason,
		Message: goodMessage}
}

func setCondition(ns *corev1.Namespace, want corev1.NamespaceCondition) (changed bool) {
	want.LastTransitionTime = metav1.NewTime(time.Now())
	i := slices.IndexFunc(ns.Status.Conditions, func(have corev1.NamespaceCondition) bool {
		return have.Type == want.Type
	})
	if i < 0 {
		ns.Status.Conditions = append(ns.Status.Conditions, want)
		return true
	}
	have := &ns.Status.Conditions[i]
	if have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
		return false
	}
	if have.Status == want.Status {
		want.LastTransitionTime = have.LastTransitionTime
	}
	*have = want
	return true
}

func discoveryFailure(err error) string {
	if err == nil {
		return ""
	}
	if failed := (*clientdiscovery.ErrGroupDiscoveryFailed)(nil); errors.As(err, &failed) {
		return fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(failed.Groups), err)
	}
	return err.Error()
}

func contentFailure(failed []error) string {
	var messages []string
	for _, err := range failed {
		messages = append(messages, err.Error())
	}
	slices.Sort(messages) // so that equal failures do not change the condition
	return fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(failed),
		strings.Join(messages, ", "))
}

// qualified returns a resource of the store with its group, as Kubernetes' messages name it: the
// core group is empty after the dot.
func qualified(resource string) string {
	if strings.Contains(resource, ".") {
		return resource
	}
	return resource + "."
}

func counted(counts map[string]int, format string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf(format, name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
