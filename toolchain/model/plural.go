package model

import (
	"strings"

	"github.com/gobuffalo/flect"
)

// Plural returns the default plural of a kind, in lower case, like controller-gen v0.23.0. With the
// marker +kubebuilder:resource:path, the resource of a kind can have another name.
//
// go.mod pins flect at the version that controller-gen v0.23.0 requires. Another version may
// contain other words, and would rename the resource of a kind that is already stored in a cluster.
//
// The argument is the kind as declared, not in lower case: flect splits it into words at capitals
// and looks the last word up in its dictionary, so NetworkAlias and Networkalias have different
// plurals.
func Plural(kind string) string {
	return strings.ToLower(flect.Pluralize(kind))
}
