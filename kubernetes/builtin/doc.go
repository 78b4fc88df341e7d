// Package builtin provides the [resource.Resource]s of Kubernetes' own kinds.
//
// The rules of a kind (defaults, conversion, validation, preparation, warnings, table columns,
// fields that a strategy resets) are Kubernetes' own code, called as a library. k8s.io/kubernetes
// promises no stable Go interface, so only packages below kubernetes/ import it. The architecture
// test lists them.
//
// A kind is one entry of a table (see core.go and the files next to it): its hub type, plural name
// and versions, short names, strategies, selectable fields and subresources. [Resources] turns the
// entries into Resources with one generic [Codec] over [Scheme].
//
//	JSON, YAML, protobuf, CBOR ──decode──▶ v1.Pod ──default, convert──▶ core.Pod (hub)
//	core.Pod ──convert──▶ v1.Pod ──json──▶ stored
//
// Everything expensive is created on first use: the types' schemas for managedFields at the first
// write of each kind, the table printers at the first table, patch metadata at the first strategic
// merge patch. What is created is immutable and shared by all control planes of a process.
// Resources are safe for concurrent use.
//
//	resources, err := builtin.Resources(builtin.Config{
//		Objects: func() resource.Objects { return handler },
//		Logs:    agent.Logs,
//	})
//	if err != nil { … }
//	registry := resource.NewRegistry(resources...)
package builtin
