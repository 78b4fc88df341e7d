//go:build !unix

package serving

import "errors"

func (s Sharing) set(uintptr) error {
	return errors.New("sharing of ports and addresses is not supported on this system")
}
