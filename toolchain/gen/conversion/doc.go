// Package conversion generates the functions that convert a version of an API (a spoke) to another
// (the hub) and back.
//
// A package is a spoke of the package that its marker names:
//
//	// +k8s:conversion-gen=example.com/shop/api/v2
//	package v1
//
// The package converts structs of the same name field by field; fields with the same Go name
// correspond. Like conversion-gen, it generates for each struct:
//
//	Convert_v1_Pizza_To_v2_Pizza, Convert_v2_Pizza_To_v1_Pizza            have a scope parameter and return an error
//	autoConvert_v1_Pizza_To_v2_Pizza, …                                   the same; hand-written functions can call them first
//	RegisterConversions                                                   has scheme.Convert call them
//
// The types can be in another package, which +k8s:conversion-gen-external-types names. A pointer
// to a simple type converts to its value, and back, by metav1's functions. Types of other spokes of
// the project are converted by the functions of those.
//
// A type with +k8s:conversion-gen:explicit-from=net/url.Values gets
// Convert_url_Values_To_v1_Options, which reads the query of a request.
//
// A field without a counterpart, or with a type that cannot be converted, is an error at the field,
// unless there is a hand-written Convert_… function. Then only autoConvert_… is generated, and its
// comment lists the remaining fields. Fields whose types have different names are converted by a
// hand-written Convert_v1_Old_To_v2_New, if there is one.
//
// Kinds get ConvertTo and ConvertFrom, and kinds of the hub get Hub, for the conversion webhooks of
// kelson.dev/operator/webhook or of controller-runtime, depending on which the module requires. For
// that, the package of the hub must request this generator too; otherwise it is an error. If a
// custom API server serves the package (+kelson:crd:generate=false), ConvertTo and ConvertFrom have
// the hub's type as their parameter, as kelson.dev/apiserver requires, and Hub is not generated.
//
// It also generates a test, zz_generated.conversion_test.go: it fills every kind with random
// values, converts it to the hub and back, and compares. It does the same with objects of the hub.
// It fails if a field is lost.
package conversion
