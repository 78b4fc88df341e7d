// Package controllerruntime has the names of controller-runtime that the project in ../shop uses.
package controllerruntime

import (
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type (
	Manager = manager.Manager
	Options = manager.Options
	Request = reconcile.Request
	Result  = reconcile.Result
)

var (
	NewManager             = manager.New
	NewControllerManagedBy = builder.ControllerManagedBy
)
