# The module has the injectors but no program: cert-manager's own main is in another module.
title="cert-manager's CA injectors" module=github.com/cert-manager/cert-manager version=v1.21.2 main=cmd/cainjector program=test/adapter/testdata/cainjector
note="The test of cmd/cainjector is this repository's: cert-manager's tests that inject are in another module."
edited="cmd/cainjector/main.go"
packages="pkg/controller/cainjector cmd/cainjector"
