package client

import "k8s.io/client-go/kubernetes/scheme"

// ApplyData returns the document that Apply sends.
func ApplyData(obj Object) ([]byte, error) { return applyPatch{scheme: scheme.Scheme}.Data(obj) }

// DiffMaps and DropNulls are for the fuzz test of merge patches.
var (
	DiffMaps  = diffMaps
	DropNulls = dropNulls
)
