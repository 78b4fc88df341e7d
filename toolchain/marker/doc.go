// Package marker parses the markers that API authors write in comments:
//
//	// +kubebuilder:validation:Minimum=1
//	// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
//	// +listType=map
//
// # Grammar
//
//	marker = "+" name                          a flag
//	       | "+" name ("=" | ":=") value       one value
//	       | "+" name ":" arg {"," arg}        named arguments
//	arg    = ident "=" value
//	value  = "…" | `…` | number | true | false | word
//	       | value ";" value …  | "{" value "," value … "}"       a list
//	       | "{" word ":" value "," … "}"                         a map
//
// A word ends before the next `,`, `;` or `}`. Markers whose names begin with k8s: may be followed
// by "#" and a remark. Some of them take arguments in parentheses, and some take another marker as
// their value:
//
//	// +k8s:eachVal=+k8s:maxLength=63
//	// +k8s:item(type: "Ready")=+k8s:required
//
// # Positions
//
// The markers of a type or field are in its doc comment or in the nearest comment above it, perhaps
// with an empty line between. Markers in comments between declarations and in the package's doc
// comment belong to the package. Comments inside functions are ignored.
//
// # Strictness
//
// A [Registry] defines every marker by name, position and argument types. In the packages of the
// project, an unknown or misplaced marker is an error with its position and the most similar known
// name. In imported packages it is ignored, since it may be meant for another tool.
//
// A Registry is immutable. Everything in this package is safe for concurrent use.
package marker
