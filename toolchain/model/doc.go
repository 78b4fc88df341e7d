// Package model is the API that the emitters write about: groups, versions, kinds, types, fields, their documentation and their markers,
// in one form for all of them.
//
//	API
//	├── Packages    every package with markers ── Group, Version, Types
//	└── Resources   every kind ── names, scope, versions (each with its root Type, subresources, columns)
//
// It is built once per run from what loader and marker found. What the markers of a kind say about the resource as a whole is read here;
// what those of types and fields say about values stays with them as markers, since each emitter reads them differently.
//
// An API belongs to one goroutine, like the Workspace under it.
package model
