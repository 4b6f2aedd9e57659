package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An agent never reaches a network: it runs in a namespace that has only loopback.

var errNoNamespace = errors.New("no network namespace can be had: it needs root, or sudo without a password")

// isolated returns a command line that runs a command in a network namespace of its own.
func isolated(command ...string) []string {
	command = append([]string{"unshare", "--net", "--"}, command...)
	if os.Getuid() != 0 {
		command = append([]string{"sudo", "-n"}, command...)
	}
	return command
}

// canIsolate returns errNoNamespace if there is no namespace to be had.
func canIsolate() error {
	probe := isolated("true")
	if out, err := exec.CommandContext(context.Background(), probe[0], probe[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w (%s)", errNoNamespace, strings.TrimSpace(string(out)))
	}
	return nil
}

// inNamespace runs this program again, in a network namespace of its own.
func inNamespace(plan string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := isolated(self, insideFlag, plan, strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid()))
	cmd := exec.CommandContext(context.Background(), command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// insideFlag is followed by the plan, and by the user and the group that asked for it.
const insideFlag = "inside"

// enterNamespace brings loopback up, makes sure that there is nothing else, and becomes the
// user again who asked for it.
func enterNamespace(uid, gid string) error {
	if err := loopbackUp(); err != nil {
		return err
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return fmt.Errorf("the namespace has the network interface %s", i.Name)
		}
	}
	user, err := strconv.Atoi(uid)
	if err != nil {
		return err
	}
	group, err := strconv.Atoi(gid)
	if err != nil || user == os.Getuid() {
		return err
	}
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(group), syscall.Setuid(user))
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only asked
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
