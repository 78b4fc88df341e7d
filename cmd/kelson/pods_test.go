package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kelson.dev/internal/require"
)

// A pod on a server with a data directory cannot read the authority's key or the kubeconfig, so
// users cannot read them through a pod.
func TestPodsReadNothingOfTheServer(t *testing.T) {
	require.Long(t, "takes seconds")
	base := t.TempDir()
	data := filepath.Join(base, "data")
	kubeconfig := filepath.Join(base, "kubeconfig")
	s := startServer(t, "--data-dir", data, "--node=process", "--kubeconfig", kubeconfig)
	kubectl := kubectlOf(t, s)
	_, err := os.Stat(filepath.Join(data, "pki", "ca.key"))
	require.NoError(t, err)
	kubectl("run", "thief", "--image=none", "--restart=Never", "--command", "--", "sh", "-c",
		"for f in $(find "+data+"/pki "+data+"/*.log "+kubeconfig+" 2>/dev/null); do cat $f && echo STOLEN; done; cat "+
			data+"/pki/ca.key "+kubeconfig+"; find / -name ca.key 2>/dev/null; echo over")
	kubectl("wait", "pod/thief", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=30s")
	log := kubectl("logs", "thief")
	if !strings.Contains(log, "over") || strings.Contains(log, "STOLEN") || strings.Contains(log, "PRIVATE KEY") ||
		strings.Contains(log, "certificate-authority-data") {
		t.Errorf("the pod printed %s", log)
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d\n%s", code, s.stderr)
	}
	if !strings.Contains(s.stderr.String(), "WARNING: pods run as processes of this machine, each with its own root directory") && os.Geteuid() == 0 {
		t.Errorf("the server does not warn that pods run on this machine: %s", s.stderr)
	}
}
