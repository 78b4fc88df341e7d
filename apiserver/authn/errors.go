package authn

import "fmt"

// flagError says which of kube-apiserver's flags is at fault: that is how these settings are known.
func flagError(flag string, err error) error { return fmt.Errorf("--%s: %w", flag, err) }
