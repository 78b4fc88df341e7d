// Package validation generates Go code from the +k8s: markers of declarative validation.
//
// For each type with rules, in itself or in a type that it uses, it writes the function
//
//	func Validate_Pizza(ctx context.Context, op operation.Operation, fldPath *field.Path, obj, oldObj *Pizza) field.ErrorList
//
// with the signature and the behaviour of Kubernetes' validation-gen: rules of types and fields,
// ratcheting (an update does not validate values that it does not change), and rules that end the
// validation of a value, such as k8s:required. The functions call
// k8s.io/apimachinery/pkg/api/validate. Kinds also get the method ValidateDeclaratively, which
// servers can call without knowing the type.
//
// The generator works in two passes. The first pass, in collect.go, combines declarations that are
// spread over several markers: the keys of lists, the members of unions, the modes of fields. The
// second one turns each marker into calls of validation functions:
//
//	marker ──▶ rules{calls, parent} ──▶ node of a type ──▶ function
//
// parent has calls for the struct or list around the value, such as the check of a union.
package validation
