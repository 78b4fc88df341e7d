// Package upstream has the tests that compare Kelson with the linked version of Kubernetes, in both
// directions: what Kubernetes has, Kelson has too, or a table says why not; and what Kelson or a
// table has, still exists in Kubernetes. A new version of Kubernetes therefore fails these tests
// until each new group, kind, flag, feature gate, plugin and controller is decided.
//
// The tests read Kubernetes' packages where they are linked anyway, and its sources where linking
// them would be expensive. The tables in this folder are read by people too:
//
//   - copies.txt names, for each part of Kelson that implements again what Kubernetes implements,
//     the original. originals.txt has a hash of each original, so that the test names those that
//     have changed. go test -update accepts the present state.
//   - controllers.txt says what runs instead of each controller of kube-controller-manager.
//   - gates.txt has each feature gate of kube-apiserver with its stage and default, and what it
//     means for Kelson. go test -update writes stages and defaults, and never a decision: a new
//     gate has ?, which the test rejects.
package upstream
