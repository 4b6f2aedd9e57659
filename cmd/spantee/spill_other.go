//go:build !linux

package main

import (
	"errors"
	"os"
)

func openUnlinked(dir string) (*os.File, error) { return createUnlinked(dir) }

func reserveSpace(*os.File, int64, int64) error { return errors.ErrUnsupported }
