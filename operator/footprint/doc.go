// Package footprint gives back memory that an idle process does not need.
//
//	footprint.Release(8 << 20)
//
// A program of Kubernetes has tens of megabytes of code and tables, most of which its initialisation touches once: until somebody else wants the
// memory they count as the process's. An operator gives them back a few seconds after its start, kelson serve each time that it has become idle.
package footprint
