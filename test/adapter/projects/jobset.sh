title=JobSet module=sigs.k8s.io/jobset version=v0.12.0 main=.
edited="main.go test/integration/controller/suite_test.go test/integration/webhook/suite_test.go"
packages="test/integration/controller test/integration/webhook"
