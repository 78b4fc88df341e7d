// Package model is the model of an API that all generators share: groups, versions, kinds, types
// and fields, with their documentation and markers.
//
//	API
//	├── Packages    every package with markers ── Group, Version, Types
//	└── Resources   every kind ── names, scope, versions (each with its root Type, subresources, columns)
//
// Build creates it once per run from the packages of loader and the markers of marker. It
// interprets the markers of a kind that describe the resource. Markers that describe values stay on
// their types and fields, since each generator interprets them differently.
//
// An API must be used by one goroutine at a time, like its Workspace.
package model
