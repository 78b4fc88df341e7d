// Package crd generates CustomResourceDefinitions.
//
// The schema of a kind follows from its Go type, as encoding/json encodes it, and from the markers
// on types and fields. It is built in two steps:
//
//  1. Every named type gets a schema in which other named types are references. The markers on a
//     field stay separate from those on the field's type.
//  2. Each reference is replaced by `allOf: [the type's schema, the field's schema]`, and each
//     allOf is merged into the schema around it. Constraints that only one of them sets are merged.
//     Constraints that they set differently stay in an allOf, so that both apply.
//
// The result equals that of controller-gen, without the version annotation. Unlike controller-gen,
// it supports generic types and unnamed structs, and rejects recursive types, which no structural
// schema can express.
package crd
