//go:build !linux

package main

func lowerPriority() {} // only Linux has a priority per thread
