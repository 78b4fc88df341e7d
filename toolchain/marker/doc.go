// Package marker reads the markers that API authors write in comments:
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
// A word is everything up to the next `,`, `;` or `}`. Names that begin with k8s: may be followed by "#" and a remark, and some of them have
// arguments in parentheses and another marker as their value:
//
//	// +k8s:eachVal=+k8s:maxLength=63
//	// +k8s:item(type: "Ready")=+k8s:required
//
// # Where markers belong
//
// In the doc comment of a type or field, or in the comment nearest above it (an empty line may be between). Comments between
// declarations, and the package's doc comment, belong to the package. Inside functions comments are not looked at.
//
// # Strictness
//
// A [Registry] knows every marker by name, place and argument types. In the packages that one works on, a marker that is unknown or
// misplaced is an error with its place and the nearest name that is known; in those that are only imported it is passed over, since
// it speaks to somebody else.
//
// A Registry is immutable after construction; everything here may be used by many goroutines.
package marker
