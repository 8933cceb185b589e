<?php echo "a script named ", basename(__FILE__);
