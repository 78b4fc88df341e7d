// Package kubectl tests the control plane with the upstream kubectl, linked in and run in process.
package kubectl
