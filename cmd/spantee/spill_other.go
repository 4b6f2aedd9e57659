//go:build !linux

package main

import (
	"errors"
	"os"
)

func openUnlinked(dir string) (*os.File, error) { return createUnlinked(dir) }

func reserveSpace(spillFile, int64, int64) error { return errors.ErrUnsupported }
