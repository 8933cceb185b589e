<?php register_shutdown_function(function () { echo ' ', getcwd(); }); echo getcwd();
