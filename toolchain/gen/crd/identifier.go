package crd

import (
	"regexp"
	"slices"
	"strings"
)

// celReserved are the words that CEL reserves:
// https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax.
var celReserved = strings.Fields(
	"true false null in as break const continue else for function if import let loop package namespace return var void while")

var celEscapes = strings.NewReplacer("__", "__underscores__", ".", "__dot__", "-", "__dash__", "/", "__slash__")

var celAccessible = regexp.MustCompile(`^[a-zA-Z_./-][a-zA-Z0-9_./-]*$`)

// celIdentifier returns the name by which rules of Kubernetes refer to a field, and false if they
// cannot refer to it. The escapes are those of x-kubernetes-validations in
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions.
func celIdentifier(field string) (string, bool) {
	switch {
	case !celAccessible.MatchString(field):
		return "", false
	case slices.Contains(celReserved, field):
		return "__" + field + "__", true
	}
	return celEscapes.Replace(field), true
}
