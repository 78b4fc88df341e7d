// Package crd writes CustomResourceDefinitions.
//
// A kind's schema follows from its Go type as encoding/json sees it, and from the markers on types and fields. It is made in two steps:
//
//  1. Every named type gets a schema in which other named types are references, so that markers on a field are kept apart from those on
//     the field's type.
//  2. Each reference is replaced by `allOf: [the type's schema, the field's own]`, and each allOf is merged into the schema around it:
//     what only one side says is taken over, what both say differently stays in an allOf, so that both hold.
//
// The result has the form and content that controller-gen gives it, without its version annotation. Beyond controller-gen, generic types
// and unnamed structs may be used, and recursive types are refused, since no structural schema can express them.
package crd
