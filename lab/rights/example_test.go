package rights_test

import (
	"fmt"
	"strings"

	"kelson.dev/lab/rights"
	"kelson.dev/toolchain/gen/rbac"
)

// The least roles of an operator, from an audit log.
func Example() {
	const log = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"list","user":{"username":"operator"},"objectRef":{"resource":"pods"}}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"create","user":{"username":"operator"},"objectRef":{"resource":"pods","subresource":"eviction","namespace":"shop"}}
{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"delete","user":{"username":"someone-else"},"objectRef":{"resource":"nodes"}}
`
	audit, err := rights.FromAudit(strings.NewReader(log), rights.Filter{User: "operator"})
	if err != nil {
		panic(err)
	}
	doc, err := rbac.YAML(rights.Roles("manager-role", audit.Requests, nil))
	if err != nil {
		panic(err)
	}
	fmt.Print(string(doc))
	// Output:
	// ---
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: ClusterRole
	// metadata:
	//   name: manager-role
	// rules:
	// - apiGroups:
	//   - ""
	//   resources:
	//   - pods
	//   verbs:
	//   - list
	// ---
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: Role
	// metadata:
	//   name: manager-role
	//   namespace: shop
	// rules:
	// - apiGroups:
	//   - ""
	//   resources:
	//   - pods/eviction
	//   verbs:
	//   - create
}
