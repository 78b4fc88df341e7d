// Package conversion writes the functions that convert a version of an API (a spoke) to another (the hub) and back.
//
// A package is a spoke of the package that its marker names:
//
//	// +k8s:conversion-gen=example.com/shop/api/v2
//	package v1
//
// Structs of one name convert to each other, field by field by their Go names. For each there are, as conversion-gen has them:
//
//	Convert_v1_Pizza_To_v2_Pizza, Convert_v2_Pizza_To_v1_Pizza            with error and scope
//	autoConvert_v1_Pizza_To_v2_Pizza, …                                   the same, for functions written by hand to begin with
//	RegisterConversions                                                   has scheme.Convert call them
//
// A field without a counterpart, or whose type does not convert, is an error at the field, unless Convert_… is written by hand; then only
// autoConvert_… is made, and says in a comment what is left to do. Fields of a type of another name are converted by a hand-written
// Convert_v1_Old_To_v2_New, if there is one.
//
// Kinds get ConvertTo and ConvertFrom (the hub's get Hub), for conversion webhooks: those of kelson.dev/operator/webhook, or of
// controller-runtime, whichever the module requires.
//
// Beside them there is a test, zz_generated.conversion_test.go: every kind, filled with random values, must be the same after it went to the
// hub and back, and every object of the hub after it went to the spoke and back. It fails on a field that is lost on the way.
package conversion
