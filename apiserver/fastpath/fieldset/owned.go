package fieldset

import "sigs.k8s.io/structured-merge-diff/v6/fieldpath"

// identifying are the fields of metadata that no manager owns: the server sets them, or they
// identify the object.
var identifying = map[string]bool{
	"name": true, "namespace": true, "creationTimestamp": true, "selfLink": true, "uid": true, "clusterName": true,
	"generation": true, "managedFields": true, "resourceVersion": true,
}

// Identifies reports whether a field of metadata identifies the object or is set by the server. No
// manager owns such a field.
func Identifies(name string) bool { return identifying[name] }

// Unowned returns a new set of the fields that no manager owns.
func Unowned() *fieldpath.Set {
	set := fieldpath.NewSet(fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"),
		fieldpath.MakePathOrDie("metadata"))
	for name := range identifying {
		set.Insert(fieldpath.MakePathOrDie("metadata", name))
	}
	return set
}
