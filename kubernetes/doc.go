// Package kubernetes contains tests of the packages below it, in one program, because each program
// of its own would link k8s.io/kubernetes again. The names of the files begin with what they test:
//
//   - emulation, openapispec, plugins and scheduler: the packages;
//   - controllers: those controllers whose folders have no tests;
//   - admission: policies and webhooks on a control plane;
//   - storage: the store, by Kubernetes' tests of its storage layer (see storage_adapter_test.go).
package kubernetes
