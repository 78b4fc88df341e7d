title=LeaderWorkerSet module=sigs.k8s.io/lws version=v0.10.0 main=cmd
edited="cmd/main.go test/integration/controllers/suite_test.go test/integration/webhooks/suite_test.go"
packages="test/integration/controllers test/integration/webhooks"
