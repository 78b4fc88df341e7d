package resource

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Unheld reports whether neither finalizers nor a grace period delay the removal of an object that
// is being deleted.
func Unheld(object metav1.Object) bool {
	grace := object.GetDeletionGracePeriodSeconds()
	return len(object.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}
